package eventsourcetest_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/syncloop"
	"github.com/podwright/podwright/syncloop/eventsourcetest"
)

func TestInboxConforms(t *testing.T) {
	eventsourcetest.Run(t, eventsourcetest.Config{New: func(testing.TB) eventsourcetest.Subject {
		inbox, n := &syncloop.Inbox{}, 0
		return eventsourcetest.Subject{Source: inbox, Touch: func() syncloop.Event {
			n++
			e := syncloop.Event{Kind: syncloop.PodDirty, UID: types.UID(fmt.Sprint(n))}
			inbox.Emit(e)
			return e
		}}
	}})
}
