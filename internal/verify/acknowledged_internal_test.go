package verify

import (
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// trimmedAcks returns what is said of acknowledged submissions of partition 0, which is trimmed to offset 10, after facts about its records.
func trimmedAcks(list []Acknowledged, facts map[int64]*events.Fact) *book {
	c := &check{topics: Topics{Submissions: "subs"}, number: 1, book: newBook(5), bounds: map[string][]Bounds{"subs": {{Start: 10, End: 20}}}, acks: newAcks(list)}
	for offset := range int64(10) {
		if f := facts[offset]; f != nil {
			c.acks.judged(c, 0, offset, f)
		}
	}
	c.acks.rest(c)
	return c.book
}

// Requests for a task are taken from submissions too, and one that is held is no submission of its task.
func TestOnlyAFactOfASubmissionProvesThatItWasThere(t *testing.T) {
	t.Parallel()
	byID, byPlace := []Acknowledged{{ID: "a", Partition: -1}}, []Acknowledged{{ID: "a", Offset: 3}}
	submitted := map[int64]*events.Fact{3: {Task: "a", Body: &events.Submitted{}}}
	for _, list := range [][]Acknowledged{byID, byPlace} {
		b := trimmedAcks(list, submitted)
		require.Empty(t, b.findings)
		require.Empty(t, b.unable)
		b = trimmedAcks(list, map[int64]*events.Fact{3: {Task: "a", Body: &events.RequestHeld{}}})
		require.Empty(t, b.findings)
		require.Len(t, b.unable[CheckInputs], 1, "it is not known")
	}
	for _, body := range []events.Body{&events.InputRejected{}, &events.InputForwarded{}} {
		require.Empty(t, trimmedAcks(byPlace, map[int64]*events.Fact{3: {Body: body}}).unable, "it was judged")
	}
	b := trimmedAcks([]Acknowledged{{ID: "other", Offset: 3}}, submitted)
	require.Len(t, b.findings, 1)
	require.Equal(t, "acknowledged_other", b.findings[0].Kind)
	require.Equal(t, Place{"subs", 0, 3}, b.findings[0].Place)
}

// A producer that sent a submission twice saw two acknowledgements. The second led to no fact.
func TestADuplicateThatIsTrimmedWasNotLost(t *testing.T) {
	t.Parallel()
	twice := []Acknowledged{{ID: "a", Offset: 3}, {ID: "a", Offset: 7}}
	require.Empty(t, trimmedAcks(twice, map[int64]*events.Fact{3: {Task: "a", Body: &events.Submitted{}}}).unable)
	require.Len(t, trimmedAcks(twice, map[int64]*events.Fact{3: {Task: "b", Body: &events.InputRejected{}}}).unable[CheckInputs], 1)
}
