//go:build !unix

package bench

import "time"

// ownCPU is not known here: figures of CPU are left out.
func ownCPU() time.Duration { return 0 }
