"""The ways a question can be measured: what each reads, what it costs, and how it is randomized.

- `base`: the interface, which all other packages use alone.
- Kinds of measurements: `additive` (noise on counts, sums, means and variances), `selection` (quantiles, extremes,
  modes), `refined_total` (totals drawn from a prior), `hierarchical` (nested counts), `threshold` (private keys),
  `randomized_response`, `unit_query` (one person, and individual DP), `constant` (public numbers).
- How far one unit moves them: `contribution_bounds` (per question), `total_sensitivity` (per total; its `LinearQuery`
  is what `additive` adds noise to), `trimmed_mean` (sums of ranks, and the mean of ranks that may stand for one rank).
- What outputs mean: `estimation.noisy_totals` (a value from noisy totals), `candidate_grid` (values of positions).
- Priors for drawing: `prior_on_grid`. For weighing afterwards: `GridPrior` of `estimation/grid_prior.py`.
- `observed_loss`: what two tables lose, for replays.
"""
