package logs

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// An old file that stays open is left after silentWriterPeriods without growth.
func TestFollowLeavesAFileThatIsNotClosed(t *testing.T) {
	followed(t, ReaderConfig{}, one, func(f *running) {
		defer f.open(0).Close()
		f.rotate("20260102-030405")
		f.append(two)
		f.is((silentWriterPeriods+2)*time.Second, "one\ntwo\n")
	})
}

// A slow follower continues with the first of several rotated files that is uncompressed, and with
// none from before the call. A warning contains the log's path if files are missing.
func TestFollowWhenRotatedFilesAreGone(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(f *running, files []string)
		want   string
		warns  bool
	}{
		"none":                     {func(*running, []string) {}, "0123", false},
		"its own, compressed":      {func(f *running, files []string) { require.NoError(f, compress(f.Context(), files[0])) }, "0123", false},
		"its own, removed":         {func(f *running, files []string) { require.NoError(f, os.Remove(files[0])) }, "0123", true},
		"the next one, compressed": {func(f *running, files []string) { require.NoError(f, compress(f.Context(), files[1])) }, "023", true},
		"two, compressed": {func(f *running, files []string) {
			require.NoError(f, compress(f.Context(), files[0]))
			require.NoError(f, compress(f.Context(), files[1]))
		}, "023", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := write(t, "")
				require.NoError(t, os.WriteFile(path+".20250102-030405", []byte("2025-01-02T03:04:05Z stdout F ancient\n"), 0o600))
				log := &page{}
				f := startFollow(t, notified(t, ReaderConfig{Logger: slog.New(slog.NewTextHandler(log, nil))}, noNotifier), path, Options{})
				var files []string
				for i := range 4 {
					f.append(fmt.Sprintf("2026-01-02T03:04:0%dZ stdout F %d\n", i, i))
					if i < 3 {
						files = append(files, f.rotate(fmt.Sprintf("20260102-03040%d", i)))
					}
				}
				tc.change(f, files)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				require.Equal(t, tc.want, strings.ReplaceAll(f.out.String(), "\n", ""))
				require.Equal(t, tc.warns, strings.Contains(log.String(), "lines may be missing"), log.String())
			})
		})
	}
}

// A reverted rotation (C41) duplicates no line, nor does the next rotation.
func TestFollowARotationTakenBack(t *testing.T) {
	followed(t, ReaderConfig{}, one, func(f *running) {
		old := f.rotate("20260102-030405")
		time.Sleep(3 * time.Second)
		require.NoError(t, os.Rename(old, f.path))
		f.append(two)
		f.is(3*time.Second, "one\ntwo\n")
		f.rotate("20260102-030409")
		f.append(one)
		f.is(3*time.Second, "one\ntwo\none\n")
	})
}

// Following can begin in the middle of a rotation.
func TestFollowFromTheGapOfARotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := write(t, one)
		require.NoError(t, os.Rename(path, path+".20260102-030405"))
		r := notified(t, ReaderConfig{}, noNotifier)
		f := startFollow(t, r, path, Options{})
		f.is(0, "one\n")
		f.append(two)
		f.is(time.Second, "one\ntwo\n")
		require.ErrorIs(t, r.Read(t.Context(), Log{Path: path + "x"}, Options{Follow: true}, nil, nil), fs.ErrNotExist)
	})
}

// Lines between the last read and the writer's end are read too, also an unterminated last line.
func TestFollowReadsOnceMoreBeforeItLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := notified(t, ReaderConfig{}, noNotifier)
		f := startFollow(t, r, write(t, one), Options{})
		late := f.open(0)
		r.writerOf = func(*os.File) writer {
			_, err := late.WriteString(two + stamp + "stdout P ha")
			require.NoError(t, err)
			require.NoError(t, late.Close())
			return writerClosed
		}
		f.rotate("20260102-030405")
		f.append(stamp + "stdout F lf\n")
		f.is(time.Second, "one\ntwo\nhalf\n")
	})
}

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
		{"more, and moved", facts{grown: true, moved: true, writer: writerClosed}, stepRead},
		{"truncated", facts{shrunk: true}, stepStartOver},
		{"stopped", facts{stopped: true, writer: writerClosed}, stepEnd},
		{"stopped, the pipe is not empty yet", facts{stopped: true, writer: writerOpen, quiet: 5 * period}, stepWait},
		{"stopped, writer there and silent", facts{stopped: true, writer: writerOpen, quiet: 10 * period}, stepEnd},
		{"stopped, writer unknown", facts{stopped: true, writer: writerUnknown}, stepWait},
		{"stopped, writer unknown and quiet", facts{stopped: true, writer: writerUnknown, quiet: period}, stepEnd},
		{"stopped, writer unknown, long ago", facts{stopped: true, moved: true, writer: writerUnknown, over: period}, stepNext},
		{"stopped, writer there, long ago", facts{stopped: true, writer: writerOpen, over: 10 * period}, stepWait},
		{"stopped after a rotation", facts{stopped: true, moved: true, writer: writerClosed}, stepNext},
		{"stopped after a rotation, writer there", facts{stopped: true, moved: true, writer: writerOpen}, stepWait},
		{"rotated, writer gone", facts{moved: true, writer: writerClosed}, stepNext},
		{"rotated, writer there", facts{moved: true, writer: writerOpen, quiet: 5 * period}, stepWait},
		{"rotated, writer there and silent", facts{moved: true, writer: writerOpen, quiet: 10 * period}, stepNext},
		{"rotated, writer unknown", facts{moved: true, writer: writerUnknown}, stepWait},
		{"rotated, writer unknown and quiet", facts{moved: true, writer: writerUnknown, quiet: period}, stepNext},
	} {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, decide(tc.in, period)) })
	}
}
