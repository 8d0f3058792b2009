package events

// Home returns the partition in which the task with this ID lives (INV1): murmur2 of the ID in UTF-8, like the
// default partitioner of the Java client, so that producers with that partitioner reach it directly.
// partitions must be positive.
func Home(taskID string, partitions int32) int32 {
	return int32(murmur2([]byte(taskID))&0x7fffffff) % partitions
}

// murmur2 is the variant and seed that Kafka's clients use.
func murmur2(b []byte) uint32 {
	const (
		seed uint32 = 0x9747b28c
		m    uint32 = 0x5bd1e995
		r           = 24
	)
	h := seed ^ uint32(len(b))
	for len(b) >= 4 {
		k := uint32(b[3])<<24 | uint32(b[2])<<16 | uint32(b[1])<<8 | uint32(b[0])
		b = b[4:]
		k *= m
		k ^= k >> r
		k *= m
		h *= m
		h ^= k
	}
	switch len(b) {
	case 3:
		h ^= uint32(b[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(b[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(b[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	h ^= h >> 15
	return h
}
