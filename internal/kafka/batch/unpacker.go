package batch

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrUnpacksTooLarge is the error that an Unpacker returns instead of kgo.ErrMaxDecompress. At that error the client stops the
// partition until its offset is set. If the fetches are restarted before the error is polled, the error is lost and the partition
// stops forever. An error that the client does not know is returned again by each fetch.
var ErrUnpacksTooLarge = errors.New("a batch unpacks to more than the limit")

// Unpacker decompresses batches up to a limit. It implements kgo.Decompressor.
type Unpacker struct{ bounded kgo.Decompressor }

// UnpackerOf takes the bounded decompressor of a client (kgo.MaxDecompressBatchBytes). The library offers no other way to get one.
func UnpackerOf(client *kgo.Client) (Unpacker, error) {
	d, ok := client.OptValue(kgo.WithDecompressor).(kgo.Decompressor)
	if !ok {
		return Unpacker{}, errors.New("the kafka client has no decompressor")
	}
	return Unpacker{d}, nil
}

// Decompress implements kgo.Decompressor.
func (u Unpacker) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	out, err := u.bounded.Decompress(src, codec)
	if errors.Is(err, kgo.ErrMaxDecompress) {
		return nil, fmt.Errorf("%w: %s", ErrUnpacksTooLarge, err.Error())
	}
	return out, err
}
