package kafka

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
)

// LogBytes returns the total size of each topic whose name begins with prefix, over all brokers and replicas. It needs the right to describe the
// cluster. If a broker does not answer, it returns only the error.
func LogBytes(ctx context.Context, c *Cluster, prefix string) (map[string]int64, error) {
	all, err := c.admin.DescribeAllLogDirs(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("ask the brokers for the sizes of their logs: %w", denied(c, err, opDescribe, "", ""))
	}
	sums := map[string]int64{}
	all.Each(func(d kadm.DescribedLogDir) {
		if d.Err != nil {
			err = fmt.Errorf("broker %d did not report the sizes of the logs in %s: %w", d.Broker, d.Dir, denied(c, d.Err, opDescribe, "", ""))
			return
		}
		d.Topics.Each(func(p kadm.DescribedLogDirPartition) {
			if strings.HasPrefix(p.Topic, prefix) {
				sums[strings.Clone(p.Topic)] += p.Size
			}
		})
	})
	if err != nil {
		return nil, err
	}
	return sums, nil
}
