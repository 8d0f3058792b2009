package dronedelivery

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
)

// ledger is the file of all calls that a service received. The service's mutex guards appending. Reading before the end needs
// no lock, because lines never change.
type ledger struct {
	file *os.File
	// end is the offset of the next line: the length of the file, unless a write failed halfway.
	end int64
	// broken is set when a failed write could not be undone: nothing may be appended after half a line.
	broken error
}

// openLedger opens or creates the file and passes every line in it to fold. A torn last line, left by a crash or a full disk,
// was never answered, so it is cut off.
func openLedger(path string, log *slog.Logger, fold func(l Line, at int64) error) (*ledger, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	l := &ledger{file: f}
	torn, err := ReadLines(f, func(line Line, size int) error {
		err := fold(line, l.end)
		l.end += int64(size)
		return err
	})
	if err == nil && torn > 0 {
		log.Warn("cut a torn last line off the ledger", "file", path, "bytes", torn, "offset", l.end)
		err = f.Truncate(l.end)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read ledger %s (move the file away to start with an empty one): %w", path, err), f.Close())
	}
	return l, nil
}

// append writes a line with one write(2) and returns its offset. On an error the ledger is unchanged.
func (l *ledger) append(line Line) (at int64, err error) {
	if l.broken != nil {
		return 0, l.broken
	}
	b, err := line.encode()
	if err != nil {
		return 0, err
	}
	if _, err := l.file.Write(b); err != nil {
		if cut := l.file.Truncate(l.end); cut != nil {
			l.broken = fmt.Errorf("ledger holds half a line: %w", errors.Join(err, cut))
		}
		return 0, fmt.Errorf("append to ledger: %w", err)
	}
	at = l.end
	l.end += int64(len(b))
	return at, nil
}

// answer returns the body of the answer to the call at this offset.
func (l *ledger) answer(at int64) (json.RawMessage, error) {
	b, err := bufio.NewReader(l.upTo(l.end, at)).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("read ledger at %d: %w", at, err)
	}
	var line Line
	if err := json.Unmarshal(b, &line); err != nil {
		return nil, fmt.Errorf("read ledger at %d: %w", at, err)
	}
	return line.Answer, nil
}

// upTo reads the file from an offset to an end that was determined under the service's mutex.
func (l *ledger) upTo(end, from int64) *io.SectionReader {
	return io.NewSectionReader(l.file, from, end-from)
}
