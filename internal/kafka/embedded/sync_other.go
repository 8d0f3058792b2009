//go:build !linux

package embedded

import "errors"

// syncsWhole is false: no call here syncs a file system and reports its errors. kfake then syncs file by file.
const syncsWhole = false

type wholeDisk struct{}

func openDisk(string) (*wholeDisk, error) { return nil, errors.ErrUnsupported }

func (*wholeDisk) sync() error { return errors.ErrUnsupported }

func (*wholeDisk) close() {}
