package logs

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDecide(t *testing.T) {
	const period = time.Second
	for _, tc := range []struct {
		name string
		in   facts
		want step
	}{
		{"nothing new", facts{}, stepWait},
		{"more", facts{grown: true}, stepRead},
		{"more, and stopped", facts{grown: true, stopped: true}, stepRead},
		{"more, and moved", facts{grown: true, moved: true, writer: writerGone}, stepRead},
		{"truncated", facts{shrunk: true}, stepStartOver},
		{"stopped", facts{stopped: true, writer: writerGone}, stepEnd},
		{"stopped, the pipe is not empty yet", facts{stopped: true, writer: writerThere, quiet: 5 * period}, stepWait},
		{"stopped, writer there and silent", facts{stopped: true, writer: writerThere, quiet: 10 * period}, stepEnd},
		{"stopped, writer unknown", facts{stopped: true, writer: writerUnknown}, stepWait},
		{"stopped, writer unknown and quiet", facts{stopped: true, writer: writerUnknown, quiet: period}, stepEnd},
		{"stopped, writer unknown, long ago", facts{stopped: true, moved: true, writer: writerUnknown, over: period}, stepNext},
		{"stopped, writer there, long ago", facts{stopped: true, writer: writerThere, over: 10 * period}, stepWait},
		{"stopped after a rotation", facts{stopped: true, moved: true, writer: writerGone}, stepNext},
		{"stopped after a rotation, writer there", facts{stopped: true, moved: true, writer: writerThere}, stepWait},
		{"stopped, compressed", facts{stopped: true, complete: true}, stepEnd},
		{"rotated, writer gone", facts{moved: true, writer: writerGone}, stepNext},
		{"rotated, writer there", facts{moved: true, writer: writerThere, quiet: 5 * period}, stepWait},
		{"rotated, writer there and silent", facts{moved: true, writer: writerThere, quiet: 10 * period}, stepNext},
		{"rotated, writer unknown", facts{moved: true, writer: writerUnknown}, stepWait},
		{"rotated, writer unknown and quiet", facts{moved: true, writer: writerUnknown, quiet: period}, stepNext},
		{"compressed", facts{moved: true, complete: true}, stepNext},
		{"compressed, nothing after it", facts{complete: true}, stepWait},
	} {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, decide(tc.in, period)) })
	}
}
