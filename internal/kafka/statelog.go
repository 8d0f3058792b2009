package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
)

// The broker's logs of groups and producers (its persist.go): each entry is its length (4 bytes, little-endian, of what
// follows the CRC), the CRC of that, and a version (2) with JSON.
var stateLogs = []string{"groups.log", "pids.log"}

const (
	stateHeader     = 8
	stateLeast      = 2
	stateLongest    = 1 << 20
	stateVersionLow = 1
)

// stateEntry returns how long the entry at the start of raw is, 0 where there is none.
func stateEntry(raw []byte) int {
	if len(raw) < stateHeader+stateLeast {
		return 0
	}
	n := binary.LittleEndian.Uint32(raw)
	if n < stateLeast || n > stateLongest || stateHeader+int(n) > len(raw) {
		return 0
	}
	body := raw[stateHeader : stateHeader+int(n)]
	if binary.LittleEndian.Uint16(body) != stateVersionLow || crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(raw[4:]) {
		return 0
	}
	return stateHeader + int(n)
}

// mendStateLog takes what is no entry out of such a log. The broker stops reading at it and appends behind it: after a
// write that a full disk cut short, all that agents committed from then on would be forgotten at the next start. What is
// lost is one entry: an agent then reads some requests once more.
func mendStateLog(path string, log *slog.Logger) error {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the broker's log of groups: %w", err)
	}
	var whole bytes.Buffer
	for rest := raw; len(rest) > 0; {
		if n := stateEntry(rest); n > 0 {
			whole.Write(rest[:n])
			rest = rest[n:]
			continue
		}
		rest = rest[1:]
	}
	if whole.Len() == len(raw) {
		return nil
	}
	log.Warn("took what cannot be read out of a log of the broker", slog.String("file", path), slog.Int("bytes", len(raw)-whole.Len()))
	if err := replaceFile(path, whole.Bytes()); err != nil {
		return fmt.Errorf("mend %s: %w", filepath.Base(path), err)
	}
	return nil
}
