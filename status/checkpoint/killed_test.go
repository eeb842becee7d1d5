package checkpoint

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// whole returns a file with a valid checksum and any record.
func whole(record []byte) []byte {
	return fmt.Appendf(nil, `{"version":%d,"uid":%q,"crc32c":%d,"record":%s}`, version, uid, checksum(record), bytes.Clone(record))
}

const fileEnv = "CHECKPOINT_TEST_FILE"

// TestSaveForever is the process that TestKilledWhileSaving kills.
func TestSaveForever(t *testing.T) {
	path := os.Getenv(fileEnv)
	if path == "" {
		t.Skip("runs as a child process")
	}
	s, err := New(Config{File: func(types.UID) string { return path }})
	require.NoError(t, err)
	for i := int32(1); ; i++ {
		require.NoError(t, s.Save(uid, aRecord(i)))
		fmt.Printf("saved %d\n", i)
	}
}

// After a kill at any moment, the file contains the last record for which Save has returned, or
// the next one.
func TestKilledWhileSaving(t *testing.T) {
	s, path := newStore(t, nil)
	rounds := 10
	if testing.Short() {
		rounds = 3
	}
	for round := range rounds {
		require.NoError(t, os.RemoveAll(path))
		child := exec.Command(os.Args[0], "-test.run=^TestSaveForever$")
		child.Env = append(child.Environ(), fileEnv+"="+path)
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		lines := bufio.NewScanner(out)
		saved := int64(0)
		for lines.Scan() {
			n, ok := strings.CutPrefix(lines.Text(), "saved ")
			if !ok {
				continue
			}
			saved, err = strconv.ParseInt(n, 10, 32)
			require.NoError(t, err)
			if saved == int64(20+7*round) {
				require.NoError(t, child.Process.Kill())
			}
		}
		require.Error(t, child.Wait(), "killed")
		got, err := again(t, s).Load(uid)
		require.NoError(t, err)
		count := int64(got.Status.ContainerStatuses[0].RestartCount)
		require.GreaterOrEqual(t, count, saved)
		require.LessOrEqual(t, count, saved+1)
	}
}
