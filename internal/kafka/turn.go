package kafka

// Turn is a lock that is held while a broker is waited for. It is no mutex: in a testing/synctest bubble, who waits for a mutex
// keeps the time from passing in which the answer comes. Make it with NewTurn.
type Turn struct{ taken chan struct{} }

// NewTurn returns a lock that nobody holds.
func NewTurn() Turn { return Turn{make(chan struct{}, 1)} }

// Lock waits for the turn.
func (t Turn) Lock() { t.taken <- struct{}{} }

// Unlock gives the turn to the next.
func (t Turn) Unlock() { <-t.taken }
