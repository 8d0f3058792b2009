package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
)

// leftovers are what this process would leave behind if it ended now. There is one list for the process, since the signal
// that ends it at once is the process's too.
var leftovers = struct {
	mu sync.Mutex
	// mu guards the fields below.
	children map[*child]bool
	// dirs are the temporary directories, with how to give back the lock of each.
	dirs map[string]func() error
	// ending says that no child may be started any more.
	ending bool
}{children: map[*child]bool{}, dirs: map[string]func() error{}}

var errEnding = errors.New("everything is being ended at once")

const (
	temporaryName = "sagalog-bench-"
	// ownerFile is in each temporary directory, locked for as long as the process lives that made it.
	ownerFile = "OWNER"
	// forgottenAfter keeps away from a directory whose owner has made the file and is about to lock it.
	forgottenAfter = time.Minute
	// atOnceWait bounds what EndAtOnce waits for: children that were killed, and files that are still being written to.
	atOnceWait = 3 * time.Second
)

// makeTemporary makes a directory that goes when the process ends, and removes those of processes that were killed.
func makeTemporary(progress io.Writer) (string, error) {
	removeForgotten(progress)
	dir, err := os.MkdirTemp("", temporaryName)
	if err != nil {
		return "", err
	}
	unlock, err := kafka.Lock(filepath.Join(dir, ownerFile))
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
		return nil // EndAtOnce has it
	}
	// The lock first: some systems remove no file that is open.
	return errors.Join(unlock(), os.RemoveAll(dir))
}

// removeForgotten removes the temporary directories that nobody owns any more: nothing can be removed after kill -9. A
// directory has one owner ever, so that a lock that is free stays so. What cannot be removed is left, and nothing is said:
// it may be somebody else's.
func removeForgotten(progress io.Writer) {
	list, _ := filepath.Glob(filepath.Join(os.TempDir(), temporaryName+"*"))
	for _, dir := range list {
		if forgotten(dir) && os.RemoveAll(dir) == nil {
			fmt.Fprintf(progress, "removed %s, which a run that was killed had left\n", dir)
		}
	}
}

func forgotten(dir string) bool {
	// A link may be a trap in a directory where everybody writes.
	place, err := os.Lstat(dir)
	if err != nil || !place.IsDir() {
		return false
	}
	file := filepath.Join(dir, ownerFile)
	owner, err := os.Lstat(file)
	if err != nil || !owner.Mode().IsRegular() || time.Since(owner.ModTime()) < forgottenAfter {
		return false
	}
	return kafka.LockFree(file) == nil
}

// EndAtOnce kills the processes that runs of this one have started, and removes their temporary directories. It is for the
// second Ctrl-C: the caller ends the process next.
func EndAtOnce(out io.Writer) {
	leftovers.mu.Lock()
	defer leftovers.mu.Unlock()
	leftovers.ending = true
	late := time.Now().Add(atOnceWait)
	for c := range leftovers.children {
		_ = c.cmd.Process.Kill() // it may be gone, which is as well
	}
	for c := range leftovers.children {
		select {
		case <-c.ended:
		case <-time.After(time.Until(late)):
			fmt.Fprintf(out, "process %d was killed and has not ended\n", c.pid())
		}
	}
	for dir, unlock := range leftovers.dirs {
		delete(leftovers.dirs, dir)
		_ = unlock()
		if err := removeUntil(dir, late); err != nil {
			fmt.Fprintf(out, "the data is still there, remove %s: %s\n", dir, err)
		}
	}
}

// removeUntil tries again until late: the broker and the node of this process may still make files while others are removed.
func removeUntil(dir string, late time.Time) error {
	for {
		err := os.RemoveAll(dir)
		if err == nil || time.Now().After(late) {
			return err
		}
		time.Sleep(lookEvery)
	}
}
