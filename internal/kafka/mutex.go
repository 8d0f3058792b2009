package kafka

// Mutex is a lock that may be held while waiting for a broker. In a testing/synctest bubble no time passes while a goroutine waits for a
// sync.Mutex, so the answer would never come. Create it with NewMutex.
type Mutex struct{ taken chan struct{} }

// NewMutex returns an unlocked mutex.
func NewMutex() Mutex { return Mutex{make(chan struct{}, 1)} }

// Lock locks m.
func (m Mutex) Lock() { m.taken <- struct{}{} }

// Unlock unlocks m.
func (m Mutex) Unlock() { <-m.taken }
