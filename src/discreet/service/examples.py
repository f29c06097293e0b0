EXAMPLES: dict[str, object] = {}
