package projector

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/sagalog/sagalog/events"
)

// The spaces of keys. Values on disk are never renumbered: a change needs a new formatVersion.
const (
	spaceStore     byte = 's'
	spacePartition byte = 'p'
	spaceList      byte = 'l'
)

// The rows of the store's own space.
const (
	storeFormat    byte = 'f'
	storeNamespace byte = 'n'
	storeReset     byte = 'r'
)

// The rows of a partition. Meta and parts are neighbours, so that one iterator reads both at one instant.
const (
	rowMeta      byte = 'a'
	rowPart      byte = 'b'
	rowDue       byte = 'd'
	rowEnded     byte = 'e'
	rowForget    byte = 'f'
	rowHistory   byte = 'h'
	rowReady     byte = 'q'
	rowRejection byte = 'r'
	rowTask      byte = 't'
	rowUnplanned byte = 'u'
	rowWake      byte = 'w'
)

// The lists over all partitions.
const (
	listAll      byte = 'a'
	listLabel    byte = 'l'
	listState    byte = 's'
	listWorkflow byte = 'w'
)

const (
	intSize       = 8
	partitionSize = 4
	// rowPrefix is the length of space, partition and row kind.
	rowPrefix = 1 + partitionSize + 1
)

func appendPartition(dst []byte, partition int32) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(partition))
}

// appendRow begins the key of a partition's row.
func appendRow(dst []byte, partition int32, row byte) []byte {
	return append(appendPartition(append(dst, spacePartition), partition), row)
}

const signBit = 1 << 63

// appendInt keeps the order of signed integers.
func appendInt(dst []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(v)^signBit)
}

// appendInverted reverses the order of signed integers.
func appendInverted(dst []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(dst, ^(uint64(v) ^ signBit))
}

func readInt(b []byte) int64 { return int64(binary.BigEndian.Uint64(b) ^ signBit) }

func readInverted(b []byte) int64 { return int64(^binary.BigEndian.Uint64(b) ^ signBit) }

// The escapes of texts inside a key. The end marker sorts before every byte that may follow, so a text sorts before any
// text that it is a prefix of.
const (
	textEscape byte = 0x00
	textEnd    byte = 0x01
	textZero   byte = 0xff
)

func appendText(dst []byte, s string) []byte {
	for i := range len(s) {
		dst = append(dst, s[i])
		if s[i] == textEscape {
			dst = append(dst, textZero)
		}
	}
	return append(dst, textEscape, textEnd)
}

// cutText reads a text from the front of key; ok is false if the text has no end.
func cutText(key []byte) (text string, rest []byte, ok bool) {
	i := bytes.IndexByte(key, textEscape)
	if i >= 0 && i+1 < len(key) && key[i+1] == textEnd { // nothing is escaped: the usual case
		return string(key[:i]), key[i+2:], true
	}
	var out []byte
	for i := 0; i+1 < len(key); i++ {
		if key[i] != textEscape {
			out = append(out, key[i])
			continue
		}
		i++
		switch key[i] {
		case textEnd:
			return string(out), key[i+1:], true
		case textZero:
			out = append(out, textEscape)
		default:
			return "", nil, false
		}
	}
	return "", nil, false
}

// prefixEnd returns the first key after all keys that begin with prefix, as a new slice.
func prefixEnd(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		end[i]++
		if end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

func taskKey(dst []byte, partition int32, id string) []byte {
	return append(appendRow(dst, partition, rowTask), id...)
}

// appendOther makes the key of one of a task's other rows from that of its head. They follow the head directly, because no task ID has a
// NUL: one scan reads a task.
func appendOther(head []byte, kind, part string) []byte {
	return append(appendText(append(head, taskEnd), kind), part...)
}

// taskEnd ends the task ID in the key of a row that is not a head.
const taskEnd byte = 0

// otherOf reads the key of one of a task's rows from the task ID on. kind is empty for a head.
func otherOf(key []byte) (task string, kind events.Kind, part string, err error) {
	id, rest, ok := bytes.Cut(key, []byte{taskEnd})
	if !ok {
		return string(id), "", "", nil
	}
	text, rest, ok := cutText(rest)
	if !ok || text == "" {
		return "", "", "", fmt.Errorf("%w: the row %q of a task has an invalid key", ErrDamaged, key)
	}
	return string(id), events.Kind(text), string(rest), nil
}

func partKey(dst []byte, partition int32, kind, id string) []byte {
	return append(appendText(appendRow(dst, partition, rowPart), kind), id...)
}

func historyKey(dst []byte, partition int32, id string) []byte {
	return append(appendRow(dst, partition, rowHistory), id...)
}

func readyPrefix(dst []byte, partition int32, line events.Line) []byte {
	return appendText(queuePrefix(dst, partition, line), line.FairBy)
}

// queuePrefix begins the rows of all keys of a queue.
func queuePrefix(dst []byte, partition int32, line events.Line) []byte {
	return appendText(appendText(appendRow(dst, partition, rowReady), line.Queue), string(line.Operation))
}

func resetKey(partition int32) []byte {
	return appendPartition([]byte{spaceStore, storeReset}, partition)
}
