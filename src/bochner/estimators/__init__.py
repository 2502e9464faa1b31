"""scikit-learn's interface to features and models."""
