"""Methods of statistical disclosure control: microaggregation, swapping, generalization, t-closeness."""
