"""The static pass: files, facts, project, writes, and the engine that runs them in order."""
