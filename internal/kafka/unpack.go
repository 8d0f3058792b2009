package kafka

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// errUnpacksTooLarge stands for kgo.ErrMaxDecompress in readers. That one makes the client stop the partition until its
// offset is set, and when its fetches are restarted before the error was polled, the error is gone and the partition
// stands still for ever. An error that the client does not know is met again at each fetch.
var errUnpacksTooLarge = errors.New("a batch unpacks to more than the limit")

// unpacker unpacks batches up to a limit.
type unpacker struct{ bounded kgo.Decompressor }

// newUnpacker takes the bounded decompressor out of a client, since the library has no other way to it.
func newUnpacker(c *Cluster, limit int) (unpacker, error) {
	client, err := c.open(kgo.MaxDecompressBatchBytes(limit))
	if err != nil {
		return unpacker{}, err
	}
	defer client.Close()
	return unpackerOf(client)
}

func unpackerOf(client *kgo.Client) (unpacker, error) {
	d, ok := client.OptValue(kgo.WithDecompressor).(kgo.Decompressor)
	if !ok {
		return unpacker{}, errors.New("the kafka client has no decompressor")
	}
	return unpacker{d}, nil
}

// Decompress implements kgo.Decompressor.
func (u unpacker) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	out, err := u.bounded.Decompress(src, codec)
	if errors.Is(err, kgo.ErrMaxDecompress) {
		return nil, fmt.Errorf("%w: %s", errUnpacksTooLarge, err.Error())
	}
	return out, err
}
