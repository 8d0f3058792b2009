package projector_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sagalog/sagalog/projector"
)

// A lookup while the store closes returns ErrClosed and leaves nothing open that would make Close fail.
func TestLookupsEndWithTheStore(t *testing.T) {
	t.Parallel()
	for range 20 {
		s, err := projector.Open(t.TempDir(), projector.Options{Namespace: "ns"})
		require.NoError(t, err)
		_, _, err = s.Get(0, "t-1")
		require.NoError(t, err)
		var asking sync.WaitGroup
		began := make(chan struct{}, 4)
		for range 4 {
			asking.Go(func() {
				for i := 0; ; i++ {
					if _, _, err := s.Get(0, "t-1"); err != nil {
						if err != projector.ErrClosed {
							t.Errorf("got %v, want ErrClosed", err)
						}
						return
					}
					if i == 10 {
						began <- struct{}{}
					}
				}
			})
		}
		for range 4 {
			<-began
		}
		require.NoError(t, s.Close())
		asking.Wait()
	}
}
