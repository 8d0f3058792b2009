//go:build !linux

package embedded

import "errors"

// syncsWhole is false: no call here syncs a file system and reports its errors. kfake then syncs file by file.
const syncsWhole = false

type disk struct{}

func openDisk(string) (*disk, error) { return nil, errors.ErrUnsupported }

func (*disk) sync(written) error { return errors.ErrUnsupported }

func (*disk) close() {}
