package logs

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// C40: lines that still arrive in the old file after the new one is there come
// first, and only then those of the new one.
func TestFollowRotationWithALateWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &states{}
		f := startFollow(t, newReader(t, ReaderConfig{States: s, Notify: noNotifier}), write(t, one), Options{Timestamps: false})
		old, err := os.OpenFile(f.path, os.O_WRONLY|os.O_APPEND, 0)
		require.NoError(t, err)
		require.NoError(t, os.Rename(f.path, f.path+".20260102-030405"))
		f.append(stamp + "stdout F -end\n" + two)
		time.Sleep(time.Second)
		synctest.Wait()
		f.is("one\n")
		_, err = old.WriteString(stamp + "stdout F late\n" + stamp + "stdout P begin\n")
		require.NoError(t, err)
		time.Sleep(time.Second)
		synctest.Wait()
		f.is("one\nlate\nbegin")
		require.NoError(t, old.Close())
		time.Sleep(time.Second)
		synctest.Wait()
		f.is("one\nlate\nbegin-end\ntwo\n")
		f.cancel()
		require.ErrorIs(t, f.endsWithin(0), context.Canceled)
	})
}

// A writer that never leaves the old file does not hold a follower for ever.
func TestFollowLeavesAFileThatIsNotClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFollow(t, newReader(t, ReaderConfig{Notify: noNotifier}), write(t, one), Options{})
		old, err := os.OpenFile(f.path, os.O_WRONLY|os.O_APPEND, 0)
		require.NoError(t, err)
		defer old.Close()
		require.NoError(t, os.Rename(f.path, f.path+".20260102-030405"))
		f.append(two)
		time.Sleep((patienceWithWriter + 2) * time.Second)
		synctest.Wait()
		f.is("one\ntwo\n")
	})
}

// A follower whose client is slow finds every file of several rotations, also
// those that are compressed by then.
func TestFollowSeveralRotations(t *testing.T) {
	for name, tidy := range map[string]func(t *testing.T, files []string){
		"plain":                  func(*testing.T, []string) {},
		"first compressed":       func(t *testing.T, files []string) { require.NoError(t, compress(t.Context(), files[0])) },
		"all compressed":         func(t *testing.T, files []string) { compressAll(t, files) },
		"first compressed, gone": func(t *testing.T, files []string) { require.NoError(t, os.Remove(files[0])) },
		"crash after compression": func(t *testing.T, files []string) {
			plain, err := os.ReadFile(files[1])
			require.NoError(t, err)
			compressAll(t, files[:2])
			require.NoError(t, os.WriteFile(files[1], plain, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := startFollow(t, newReader(t, ReaderConfig{Notify: noNotifier}), write(t, ""), Options{})
				// An older file, of before the call, stays out of it.
				require.NoError(t, os.WriteFile(f.path+".20250102-030405", []byte("2025-01-02T03:04:05Z stdout F ancient\n"), 0o600))
				var files []string
				want := ""
				for i := range 4 {
					line := fmt.Sprintf("line %d\n", i)
					f.append(fmt.Sprintf("2026-01-02T03:04:0%dZ stdout F %s", i, line))
					want += line
					if i < 3 {
						files = append(files, fmt.Sprintf("%s.20260102-03040%d", f.path, i))
						require.NoError(t, os.Rename(f.path, files[i]))
					}
				}
				tidy(t, files)
				time.Sleep(10 * time.Second)
				synctest.Wait()
				f.is(want)
			})
		})
	}
}

func compressAll(t *testing.T, files []string) {
	for _, file := range files {
		require.NoError(t, compress(t.Context(), file))
	}
}

// A rotation that is taken back (C41) doubles nothing, nor does the next one.
func TestFollowARotationTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFollow(t, newReader(t, ReaderConfig{Notify: noNotifier}), write(t, one), Options{})
		require.NoError(t, os.Rename(f.path, f.path+".20260102-030405"))
		time.Sleep(3 * time.Second)
		require.NoError(t, os.Rename(f.path+".20260102-030405", f.path))
		f.append(two)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		f.is("one\ntwo\n")
		require.NoError(t, os.Rename(f.path, f.path+".20260102-030409"))
		f.append(one)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		f.is("one\ntwo\none\n")
	})
}

// A log that is followed from the middle of a rotation on.
func TestFollowFromTheGapOfARotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := write(t, one)
		require.NoError(t, os.Rename(path, path+".20260102-030405"))
		f := startFollow(t, newReader(t, ReaderConfig{Notify: noNotifier}), path, Options{})
		f.is("one\n")
		f.append(two)
		time.Sleep(time.Second)
		synctest.Wait()
		f.is("one\ntwo\n")
		require.ErrorIs(t, newReader(t, ReaderConfig{}).Read(t.Context(), Log{Path: path + "x"}, Options{Follow: true}, nil, nil), fs.ErrNotExist)
	})
}

// What arrives between the last read and the end of the last writer is read too,
// also a last line without its end.
func TestFollowReadsOnceMoreBeforeItLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReader(t, ReaderConfig{Notify: noNotifier})
		f := startFollow(t, r, write(t, one), Options{})
		old := f.path + ".20260102-030405"
		r.writerOf = func(*os.File) writer {
			file, err := os.OpenFile(old, os.O_WRONLY|os.O_APPEND, 0)
			require.NoError(t, err)
			_, err = file.WriteString(two + stamp + "stdout P ha")
			require.NoError(t, err)
			require.NoError(t, file.Close())
			return writerGone
		}
		require.NoError(t, os.Rename(f.path, old))
		f.append(stamp + "stdout F lf\n")
		time.Sleep(time.Second)
		synctest.Wait()
		f.is("one\ntwo\nhalf\n")
	})
}
