package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sagalog/sagalog/internal/pause"
)

// retryFor bounds how long a request is repeated. A dead connection is noticed at once.
const retryFor = 5 * time.Second

// retry repeats a request after a lost connection, and while leaders move. The client also repeats it after a lost
// connection, but to find the leader or coordinator it tries only three connections. A client that was idle while
// brokers restarted may have more dead connections than that. ask must be idempotent.
func retry(ctx context.Context, ask func() error) error {
	began := time.Now()
	for try := 1; ; try++ {
		err := ask()
		if !kgo.IsRetryableBrokerErr(err) && (!kerr.IsRetriable(err) || unknown(err)) {
			return err
		}
		if time.Since(began) > retryFor {
			return fmt.Errorf("asked %d times: %w", try, err)
		}
		if !pause.For(ctx, backoff(try)) {
			return err
		}
	}
}
