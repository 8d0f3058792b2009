package events

import "strconv"

// AcceptedLoss is the value of a record of the definitions with the type TypeLoss: an operator gives up the inputs from From to before To
// of a partition, which were deleted before they were judged.
type AcceptedLoss struct {
	Input     Input  `json:"input"`
	Partition int32  `json:"partition"`
	From      int64  `json:"from"`
	To        int64  `json:"to"`
	TopicID   string `json:"topic_id,omitempty"`
	Reason    string `json:"reason,omitempty"`
	By        string `json:"by,omitempty"`
}

// Key is the key of its record. The latest record of a key counts.
func (l *AcceptedLoss) Key() string {
	return "accept-loss/" + string(l.Input) + "/" + strconv.Itoa(int(l.Partition))
}
