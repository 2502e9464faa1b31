"""A table as it is, against boosting.

Numbers, a category, a date and gaps go in as they are. `TabularRegressor` learns a scale for every column and exact
models on the leaves of a tree; where the truth is smooth, that beats trees. Its intervals hold what they say.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor

from bochner import TabularRegressor

rng, n = np.random.default_rng(0), 900
table = pd.DataFrame(
    {
        "hour": rng.integers(0, 24, n),
        "temperature": rng.normal(15, 8, n),
        "wind": rng.gamma(2.0, 3.0, n),
        "day": pd.Categorical(rng.choice(["workday", "weekend"], n, p=[5 / 7, 2 / 7])),
        "date": pd.to_datetime("2025-01-01") + pd.to_timedelta(rng.integers(0, 365, n), "D"),
    }
)
busy = 3 + np.cos((table["hour"] - 16) / 24 * 2 * np.pi) + (table["day"] == "weekend")
rentals = 40 * busy * np.exp(-(((table["temperature"] - 22) / 14) ** 2)) - 2 * table["wind"] + rng.normal(0, 4, n)
table.loc[rng.random(n) < 0.1, "wind"] = np.nan
train, test = slice(0, 600), slice(600, None)
model = TabularRegressor(random_state=0).fit(table[train], rentals[train])
numbers = table.assign(date=table["date"].dt.day_of_year)
boosting = HistGradientBoostingRegressor(categorical_features="from_dtype", random_state=0)
boosting.fit(numbers[train], rentals[train])
spread = rentals[test].std()
predictions = {"TabularRegressor": model.predict(table[test]), "boosting": boosting.predict(numbers[test])}
errors = {name: float(np.sqrt(np.mean((p - rentals[test]) ** 2)) / spread) for name, p in predictions.items()}
low, high = model.predict_interval(table[test], coverage=0.9).T
covered = float(np.mean((low <= rentals[test]) & (rentals[test] <= high)))
for name, error in errors.items():
    print(f"{name}: error {error:.3f} of the deviation")
print(f"90 % intervals hold {covered:.0%} of the new targets")
figure, axes = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained", sharey=True)
for axis, (name, prediction) in zip(axes, predictions.items(), strict=True):
    axis.plot([-20, 250], [-20, 250], color="0.7", linewidth=1)
    axis.scatter(rentals[test], prediction, s=8)
    axis.set(title=f"{name}: error {errors[name]:.3f}", xlabel="rentals", aspect="equal")
axes[0].set_ylabel("predicted")
plt.show()
