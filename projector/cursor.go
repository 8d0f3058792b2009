package projector

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// A cursor is the suffix of the list key at which to resume, with a version in front and a checksum behind. It contains no
// filter, so a caller may change the limit, or even the filter, and resumes at the same instant.
const (
	cursorVersion = byte(1)
	cursorMax     = 1024
	checksumSize  = 4
)

var cursorEncoding = base64.RawURLEncoding.Strict()

func encodeCursor(suffix []byte) string {
	b := append([]byte{cursorVersion}, suffix...)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return cursorEncoding.EncodeToString(b)
}

func decodeCursor(s string) (suffix []byte, err error) {
	if len(s) > cursorMax || strings.ContainsAny(s, "\r\n") { // base64 would skip line breaks
		return nil, fmt.Errorf("%w: it is too long or has line breaks", ErrCursor)
	}
	b, err := cursorEncoding.DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCursor, err)
	}
	end := len(b) - checksumSize
	if end < 1+intSize || binary.BigEndian.Uint32(b[end:]) != crc32.ChecksumIEEE(b[:end]) || b[0] != cursorVersion {
		return nil, fmt.Errorf("%w: it is damaged or from another version", ErrCursor)
	}
	return b[1:end], nil
}

// CursorAt returns the cursor of the page that begins with the task of that partition, ID and time of submission.
func CursorAt(partition int32, id string, submitted events.Instant) string {
	return encodeCursor(appendSuffix(nil, submitted, id, partition))
}

// Place returns where the page of a cursor begins. Places compare bytewise in list order in every store of a namespace, so the
// pages of several stores can be merged. It returns ErrCursor if s is not a cursor.
func Place(cursor string) (string, error) {
	suffix, err := decodeCursor(cursor)
	return string(suffix), err
}
