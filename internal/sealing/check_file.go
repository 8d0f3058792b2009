package sealing

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/sagalog/sagalog/events"
)

// checkFile refuses a key file that holds none of the keys that wrap the data keys in use: it is the file of another namespace, or an old one.
// A process with such a file could open nothing, and would fail every submission. A file that lacks only some of the keys is normal while a key is
// being replaced.
func (k *Keys) checkFile(log *slog.Logger) error {
	k.topic.mu.Lock()
	defer k.topic.mu.Unlock()
	file := k.file.Now()
	held, missing := false, map[string]bool{}
	for _, d := range k.topic.ring.all {
		if file.find(d.With) != nil {
			held = true
		} else {
			missing[events.Clip(d.With, 16)] = true
		}
	}
	if len(missing) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(missing))
	if len(names) > mostKeys {
		names = append(names[:mostKeys], "...")
	}
	list := strings.Join(names, ", ")
	if held {
		log.Warn("the key file lacks keys that wrap data keys of this namespace: this process cannot open what those data keys sealed", "file", k.file.path, "keys", list,
			"remedy", "use the file that the other nodes have; `sagalog key list` shows which key wraps what")
		return nil
	}
	return fmt.Errorf("%s does not hold the key that wraps the data keys of namespace %s (%s), so nothing could be opened with it: it is the key file of another namespace, or an old one. "+
		"Use the file that the other nodes have; `sagalog key list` shows which key wraps what", k.file.path, k.topic.namespace, list)
}
