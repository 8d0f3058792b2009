package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// againFor bounds how long a question is asked again. A dead connection tells at once that it is dead.
const againFor = 5 * time.Second

// again asks again after a lost connection. The client does so too, but where it must first learn who leads or coordinates it
// tries three connections more and no others, and one that has rested while brokers were restarted may have more dead ones
// than that. ask must not mind being carried out twice.
func again(ctx context.Context, ask func() error) error {
	began := time.Now()
	for try := 1; ; try++ {
		err := ask()
		if !kgo.IsRetryableBrokerErr(err) {
			return err
		}
		if time.Since(began) > againFor {
			return fmt.Errorf("asked %d times: %w", try, err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(backoff(try)):
		}
	}
}
