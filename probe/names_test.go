package probe

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNames(t *testing.T) {
	require.Equal(t, "Liveness Readiness Startup Type(3) Type(-1)", Liveness.String()+" "+Readiness.String()+" "+Startup.String()+" "+Type(3).String()+" "+Type(-1).String())
	require.Equal(t, "Unknown Success Warning Failure Verdict(4)", Unknown.String()+" "+Success.String()+" "+Warning.String()+" "+Failure.String()+" "+Verdict(4).String())
}

func TestCut(t *testing.T) {
	require.Equal(t, "abc", cut("abc", 3))
	require.Equal(t, "ab", cut("abc", 2))
	require.Equal(t, "a", cut("aé", 2), "no half characters")
	require.Equal(t, "a\uFFFDb", cut("a\xffb", 5))
}
