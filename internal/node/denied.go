package node

import (
	"errors"
	"log/slog"
	"sync"

	"github.com/sagalog/sagalog/internal/kafka"
)

// toldOnce logs once that the cluster refuses something that is tried all the time and whose other errors pass.
type toldOnce struct{ once sync.Once }

func (o *toldOnce) tell(log *slog.Logger, what string, err error) {
	if _, denied := errors.AsType[*kafka.DeniedError](err); denied {
		o.once.Do(func() { log.Error(what, "error", err) })
	}
}
