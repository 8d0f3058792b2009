package whatif

// WithMoves returns a configuration whose replays move their time n times at most.
func WithMoves(cfg Config, n int) Config {
	cfg.moves = n
	return cfg
}
