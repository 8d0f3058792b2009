//go:build !linux

package kafka

import "errors"

// syncsWhole is false where no call syncs a file system and tells its errors; the broker then syncs file by file.
const syncsWhole = false

type wholeDisk struct{}

func openDisk(string) (*wholeDisk, error) { return nil, errors.ErrUnsupported }

func (*wholeDisk) sync() error { return errors.ErrUnsupported }

func (*wholeDisk) close() {}
