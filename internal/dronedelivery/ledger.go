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

// ledger is the file of all calls that a service received. The service's mutex guards appending; reading what lies
// before the end needs no lock, because lines never change.
type ledger struct {
	file *os.File
	// end is where the next line begins: the length of the file, unless a write failed half way.
	end int64
	// broken is set when a failed write could not be taken back; nothing may be appended behind half a line.
	broken error
}

// openLedger opens or makes the file and hands every line in it to fold. A torn last line, left by a crash or a full
// disk, was never answered, so it is cut off.
func openLedger(path string, log *slog.Logger, fold func(l Line, at int64) error) (*ledger, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	l := &ledger{file: f}
	torn, err := l.replay(fold)
	if err == nil && torn > 0 {
		log.Warn("cut a torn last line off the ledger", "file", path, "bytes", torn, "offset", l.end)
		err = f.Truncate(l.end)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read ledger %s: %w", path, err), f.Close())
	}
	return l, nil
}

// replay folds all whole lines, sets end behind them, and returns how many bytes follow.
func (l *ledger) replay(fold func(Line, int64) error) (torn int, err error) {
	r := bufio.NewReaderSize(l.file, 1<<16)
	for n := 1; ; n++ {
		b, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return len(b), nil
		}
		if err != nil {
			return 0, err
		}
		var line Line
		if err := json.Unmarshal(b, &line); err != nil {
			return 0, fmt.Errorf("line %d is damaged (move the file away to begin anew): %w", n, err)
		}
		if err := fold(line, l.end); err != nil {
			return 0, fmt.Errorf("line %d: %w", n, err)
		}
		l.end += int64(len(b))
	}
}

// append writes a line by one write(2) and returns where it begins. On an error the ledger is as before.
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

// answer returns the body that the call at this place got.
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

// upTo reads the file from a place to an end that was taken under the service's mutex.
func (l *ledger) upTo(end, from int64) *io.SectionReader {
	return io.NewSectionReader(l.file, from, end-from)
}

func (l *ledger) close() error { return l.file.Close() }
