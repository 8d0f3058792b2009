package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/projector"
)

// leftovers are the processes and directories that this process would leave behind if it ended now. There is one list for the process,
// since the signal that ends it at once is sent to the process.
var leftovers = struct {
	mu sync.Mutex
	// mu guards the fields below.
	children map[*child]bool
	// dirs are the temporary directories, each with a function that releases its lock.
	dirs map[string]func() error
	// ending says that no more children may be started.
	ending bool
}{children: map[*child]bool{}, dirs: map[string]func() error{}}

var errEnding = errors.New("the run is ending at once")

const (
	temporaryName = "sagalog-bench-"
	// ownerFile is in each temporary directory. The process that made the directory holds a lock on it.
	ownerFile = "OWNER"
	// forgottenAfter leaves time for a process that has created the file and is about to lock it.
	forgottenAfter = time.Minute
	// atOnceWait bounds how long EndAtOnce waits for killed children and for files that are still written to.
	atOnceWait = 3 * time.Second
	// looksAway is how many times in a row a removed directory must be found gone.
	looksAway = 5
)

// makeTemporary makes a directory that is removed when the process ends, and removes those of killed processes.
func makeTemporary(progress io.Writer) (string, error) {
	removeForgotten(progress)
	dir, err := os.MkdirTemp("", temporaryName)
	if err != nil {
		return "", err
	}
	unlock, err := embedded.Lock(filepath.Join(dir, ownerFile))
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	leftovers.mu.Lock()
	defer leftovers.mu.Unlock()
	leftovers.dirs[dir] = unlock
	return dir, nil
}

// removeTemporary removes what makeTemporary made.
func removeTemporary(dir string) error {
	leftovers.mu.Lock()
	unlock := leftovers.dirs[dir]
	delete(leftovers.dirs, dir)
	leftovers.mu.Unlock()
	if unlock == nil {
		return nil // EndAtOnce removes it
	}
	// the lock first: some systems cannot remove an open file
	return errors.Join(unlock(), os.RemoveAll(dir))
}

// removeForgotten removes the temporary directories of processes that were killed. A directory has only one owner in its life, so a
// free lock stays free. It silently skips directories that it cannot remove, since they may belong to another user.
func removeForgotten(progress io.Writer) {
	list, _ := filepath.Glob(filepath.Join(os.TempDir(), temporaryName+"*"))
	for _, dir := range list {
		if forgotten(dir) && os.RemoveAll(dir) == nil {
			fmt.Fprintf(progress, "removed %s, which a run that was killed had left\n", dir)
		}
	}
}

func forgotten(dir string) bool {
	// in a directory where everyone writes a link may be a trap
	place, err := os.Lstat(dir)
	if err != nil || !place.IsDir() {
		return false
	}
	file := filepath.Join(dir, ownerFile)
	owner, err := os.Lstat(file)
	if err != nil || !owner.Mode().IsRegular() || time.Since(owner.ModTime()) < forgottenAfter {
		return false
	}
	return embedded.LockFree(file) == nil
}

// EndAtOnce kills the processes that this one has started, and removes their temporary directories. It serves the second Ctrl-C: the
// caller ends the process next.
func EndAtOnce(out io.Writer) {
	leftovers.mu.Lock()
	defer leftovers.mu.Unlock()
	leftovers.ending = true
	projector.Abandon()
	late := time.Now().Add(atOnceWait)
	for c := range leftovers.children {
		_ = c.cmd.Process.Kill() // it may be gone already
	}
	for c := range leftovers.children {
		select {
		case <-c.ended:
		case <-time.After(time.Until(late)):
			fmt.Fprintf(out, "process %d was killed and has not ended yet\n", c.pid())
		}
	}
	for dir, unlock := range leftovers.dirs {
		delete(leftovers.dirs, dir)
		_ = unlock()
		if err := removeUntil(dir, late); err != nil {
			fmt.Fprintf(out, "the data could not be removed; remove %s: %s\n", dir, err)
		}
	}
}

// removeUntil removes a directory until it stays gone for a few checks: the broker and the node of this process still run, and
// may create files, or the whole directory again, after a removal. It gives up at late.
func removeUntil(dir string, late time.Time) error {
	for away := 0; ; {
		err := os.RemoveAll(dir)
		if _, there := os.Lstat(dir); err == nil && errors.Is(there, os.ErrNotExist) {
			away++
		} else {
			away = 0
		}
		if away > looksAway || time.Now().After(late) {
			return err
		}
		time.Sleep(lookEvery)
		if _, there := os.Lstat(dir); there == nil {
			away = 0
		}
	}
}
