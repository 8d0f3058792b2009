package projector

// Disk is what the store takes of the disk of this node. Free is negative while the system does not say.
type Disk struct{ State, Free int64 }

// Disk returns what the store takes of the disk; false once the store is closed.
func (s *Store) Disk() (d Disk, ok bool) {
	d.Free = s.free()
	s.open.RLock()
	defer s.open.RUnlock()
	if s.closed {
		return d, false
	}
	d.State = int64(s.db.Metrics().DiskSpaceUsage())
	return d, true
}

// free returns how many bytes of the store's disk are free, negative while the system does not say.
func (s *Store) free() int64 {
	usage, err := s.fs.GetDiskUsage(s.dir)
	if err != nil {
		return -1
	}
	return int64(usage.AvailBytes)
}
