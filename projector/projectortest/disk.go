// Package projectortest gives tests a state store's disk in memory: it can lose what was not synced, as a power cut
// does, and be copied, as a person does.
package projectortest

import (
	"math/rand/v2"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Disk is a file system in memory. It outlives the store that is opened on it.
type Disk struct{ mem *vfs.MemFS }

// NewDisk returns an empty disk.
func NewDisk() *Disk { return &Disk{vfs.NewCrashableMem()} }

// FS is what a store is opened on.
func (d *Disk) FS() vfs.FS { return d.mem }

// everything is the percentage of what was not synced that a copy or a killed process leaves: all of it.
const everything = 100

// Copy returns what is on the disk now. The store may be open: then it is what kill -9 would leave.
func (d *Disk) Copy() *Disk { return d.PowerCut(everything, rand.New(rand.NewPCG(0, 0))) }

// PowerCut returns what a power cut at this moment leaves: all that was synced, and of the rest each block with the
// given chance in percent.
func (d *Disk) PowerCut(percent int, dice *rand.Rand) *Disk {
	return &Disk{d.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: dice})}
}
