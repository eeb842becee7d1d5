package podworkers

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// A pod that has its turn waits no longer.
func TestHolderDoesNotWait(t *testing.T) {
	n := nameSlots{}
	n.enqueue("web", "1")
	n.enqueue("web", "2")
	n.hold("web", "1")
	require.Equal(t, nameSlot{holders: []types.UID{"1"}, waiting: []types.UID{"2"}}, *n["web"])
	n.release("web", "1")
	require.Equal(t, types.UID("2"), n.next("web"))
	n.release("web", "2")
	require.Empty(t, n)
}
