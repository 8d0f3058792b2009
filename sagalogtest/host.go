package sagalogtest

import (
	"fmt"
	"os"
	"sync"
)

// host is what an engine needs of a test.
type host interface {
	Helper()
	Cleanup(f func())
	TempDir() string
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Open runs an engine until stop is called, for what has no testing.T: one engine for all tests of a package (TestMain), and examples.
// Whatever would fail a test panics.
func Open(options ...Option) (e *Engine, stop func()) {
	o := &outside{}
	return startFor(o, options), sync.OnceFunc(o.end)
}

// outside stands for a test.
type outside struct{ cleanups []func() }

func (o *outside) Helper()          {}
func (o *outside) Cleanup(f func()) { o.cleanups = append(o.cleanups, f) }

func (o *outside) TempDir() string {
	dir, err := os.MkdirTemp("", "sagalogtest")
	if err != nil {
		panic(err)
	}
	o.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (o *outside) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (o *outside) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// end does what the end of a test does.
func (o *outside) end() {
	for i := len(o.cleanups) - 1; i >= 0; i-- {
		o.cleanups[i]()
	}
}
