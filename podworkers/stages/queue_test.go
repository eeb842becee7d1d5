package stages

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// The next one is the first of those that rest; who is needed or under way is not waited for.
func TestNextOfSeveral(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	q := queue{pods: map[types.UID]*leftover{
		"now": {notBefore: at(1)}, "late": {notBefore: at(9)}, "first": {notBefore: at(5)}, "owned": {notBefore: at(3), owned: true},
	}}
	next, ok := q.next(at(2))
	require.True(t, ok)
	require.Equal(t, at(5), next)
}

func TestQueue(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	q := queue{parallel: 2, rest: 5 * time.Second, pods: map[types.UID]*leftover{}}
	all := map[types.UID][]string{"a": {"x"}, "b": {"x"}, "c": {"x", "y"}}
	q.listed(all, true, at(1))
	require.Equal(t, []types.UID{"a", "b", "c"}, q.due(at(1)))
	_, ok := q.next(at(1))
	require.False(t, ok)

	q.begin("a", at(1))
	require.False(t, q.full())
	q.begin("b", at(1))
	require.True(t, q.full())
	require.Equal(t, []types.UID{"c"}, q.due(at(1)))
	q.isOwned("c")
	require.Empty(t, q.due(at(1)))

	// What failed rests, and is news once.
	require.True(t, q.end("b", errBroken, at(2)))
	require.Empty(t, q.due(at(2)))
	next, ok := q.next(at(2))
	require.True(t, ok)
	require.Equal(t, at(7), next)

	// What a listing does not name is over, unless it is being released, or the listing
	// is not complete.
	q.listed(nil, false, at(3))
	require.Len(t, q.pods, 3)
	require.Equal(t, []types.UID{"c"}, q.due(at(3)), "nobody may need it any more")
	q.listed(map[types.UID][]string{"b": {"x"}, "c": {"y"}}, true, at(3))
	require.Len(t, q.pods, 3)

	// Those that failed come last.
	require.Equal(t, []types.UID{"c", "b"}, q.due(at(7)))
	q.begin("b", at(7))
	require.False(t, q.end("b", errBroken, at(8)))
	require.False(t, q.end("a", nil, at(8)))
	q.listed(map[types.UID][]string{"c": nil}, true, at(9))
	require.Len(t, q.pods, 1)
	require.Zero(t, q.running)
}
