package kafka

import "log/slog"

func scrub(dir string, log *slog.Logger) error { return nil }
