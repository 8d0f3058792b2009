package embedded

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

// kfake's logs of groups and producers. Each entry has its length (4 bytes, little-endian, without the CRC), the CRC of the
// rest, a version (2) and JSON.
var stateLogs = []string{"groups.log", "pids.log"}

const (
	stateHeader     = 8
	stateLeast      = 2
	stateLongest    = 1 << 20
	stateVersionLow = 1
)

// stateEntry returns the length of the entry at the start of raw, or 0 if raw does not begin with one.
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

// repairStateLog removes damaged bytes from such a log. kfake stops reading at them and appends behind them: after a write that a full disk
// cut short, everything that agents committed later would be forgotten at the next start. With the repair only one entry is lost, and an
// agent reads some requests again.
func repairStateLog(path string, log *slog.Logger) error {
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
	log.Warn("removed damaged bytes from a log of the broker", slog.String("file", path), slog.Int("bytes", len(raw)-whole.Len()))
	if err := replaceFile(path, whole.Bytes()); err != nil {
		return fmt.Errorf("repair %s: %w", filepath.Base(path), err)
	}
	return nil
}
