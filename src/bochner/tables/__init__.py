"""Models of tables: columns, scaling, trees of exact models, and their average."""
