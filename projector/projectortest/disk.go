// Package projectortest gives tests a state store's disk in memory: it can lose unsynced data, as in a power cut, and can be
// copied, as a person would copy it.
package projectortest

import (
	"math/rand/v2"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Disk is a file system in memory. It outlives the store that is opened on it.
type Disk struct{ mem *vfs.MemFS }

// NewDisk returns an empty disk.
func NewDisk() *Disk { return &Disk{vfs.NewCrashableMem()} }

// FS returns the file system to open a store on.
func (d *Disk) FS() vfs.FS { return d.mem }

// everything is the percentage of unsynced data that survives in a copy or after a kill: all of it.
const everything = 100

// Copy returns a copy of the disk. The store may be open: then the copy is what kill -9 would leave.
func (d *Disk) Copy() *Disk { return d.PowerCut(everything, rand.New(rand.NewPCG(0, 0))) }

// PowerCut returns what a power cut at this moment would leave: everything that was synced, and each other block with the given
// chance in percent.
func (d *Disk) PowerCut(percent int, dice *rand.Rand) *Disk {
	return &Disk{d.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: dice})}
}
