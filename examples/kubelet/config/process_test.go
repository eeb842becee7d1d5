package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBadProcess(t *testing.T) {
	_, _, err := withFile(t, "oomScoreAdj: 1001\nmaxOpenFiles: -1")
	require.ErrorContains(t, err, "oomScoreAdj: 1001 is not within")
	require.ErrorContains(t, err, "maxOpenFiles: -1 is negative")
}
