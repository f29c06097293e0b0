"""The web console: pages made by the functions of the API, and scripts that call it; nothing comes from elsewhere."""
