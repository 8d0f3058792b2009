package node_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/doctor"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/stretchr/testify/require"
)

// One of three brokers is cut off, and the others lead everything. The test takes the same steps as the start of serve.
func TestANodeStartsWhileOneOfThreeBrokersIsCutOff(t *testing.T) {
	for gone := range int32(3) {
		t.Run(fmt.Sprint(gone), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w, brokers := fencing(t)
				require.NoError(t, w.node(t.TempDir()).stop())
				cfg, _ := brokers.CutOff(gone, kafka.TopicNames(w.topics.Base(1))...)
				c, err := kafka.Connect(cfg)
				require.NoError(t, err)
				defer c.Close()
				require.NoError(t, doctor.Preflight(t.Context(), c, doctor.Need{
					Topics: w.topics, Partitions: w.parts, Owner: true, API: true, Projector: true,
					Made: func(ctx context.Context) (int32, error) {
						ns, err := node.ReadNamespace(ctx, c, w.topics.Namespace)
						return ns.Partitions, err
					},
				}))
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				n, err := node.Open(ctx, node.Config{Cluster: c, Name: "late", Dir: t.TempDir(), Logger: w.logs.logger()})
				require.NoError(t, err)
				require.Equal(t, w.parts, n.Partitions(), "read from definitions")
				require.NoError(t, n.Close())
			})
		})
	}
}
