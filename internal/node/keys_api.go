package node

import (
	"context"

	"github.com/sagalog/sagalog/internal/api"
	"github.com/sagalog/sagalog/internal/sealing"
)

// apiKeys are the keys as the API uses them: new keys are written to the brokers, which may not answer.
type apiKeys struct{ *sealing.Keys }

var _ api.Keys = apiKeys{}

// SealInput implements api.Keys.
func (k apiKeys) SealInput(ctx context.Context, subject, task string, input []byte) ([]byte, error) {
	out, err := k.Keys.SealInput(ctx, subject, task, input)
	return out, noAnswer(err)
}

// Prepare implements api.Keys.
func (k apiKeys) Prepare(ctx context.Context, subjects ...string) error {
	return noAnswer(k.Keys.Prepare(ctx, subjects...))
}

// Seal implements api.Keys.
func (k apiKeys) Seal(ctx context.Context, subject string, value []byte) ([]byte, error) {
	out, err := k.Keys.Seal(ctx, subject, value)
	return out, noAnswer(err)
}
