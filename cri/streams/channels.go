package streams

import (
	"encoding/json"
	"errors"
	"io"
	"sync"
)

// channels are the client's streams of one session, independent of the transport.
type channels struct {
	// stdin and resize are nil if they are not part of the session. Closing stdin sends its end,
	// if the protocol supports that.
	stdin, resize io.WriteCloser
	// stdout and stderr are nil if they are not part of the session. All readers end with the
	// connection.
	stdout, stderr, status io.Reader
	// close ends the connection and waits for its goroutines.
	close func()
}

// run copies all streams until the server has sent the session's status and the output is
// complete.
func (c *channels) run(s Session) (int, error) {
	var output, input sync.WaitGroup
	var outErrs [2]error
	output.Go(func() { outErrs[0] = drain(s.Stdout, c.stdout) })
	output.Go(func() { outErrs[1] = drain(s.Stderr, c.stderr) })
	over := make(chan struct{})
	input.Go(func() { c.resizes(s.Resize, over) })
	c.feed(&input, s.Stdin)

	document, _ := io.ReadAll(io.LimitReader(c.status, maxStatus))
	code, err := parseStatus(document)
	output.Wait()
	close(over)
	c.close()
	if closer, ok := s.Stdin.(io.Closer); ok {
		_ = closer.Close()
	}
	input.Wait()
	return code, errors.Join(err, outErrs[0], outErrs[1])
}

// feed sends standard input. It does not wait for a reader that cannot be closed.
func (c *channels) feed(joined *sync.WaitGroup, stdin io.Reader) {
	if c.stdin == nil {
		return
	}
	copied := func() {
		// Errors are ignored, because a command need not read its input.
		_, _ = io.Copy(c.stdin, stdin)
		_ = c.stdin.Close()
	}
	if _, ok := stdin.(io.Closer); ok {
		joined.Go(copied)
		return
	}
	go copied()
}

func (c *channels) resizes(sizes <-chan Size, over <-chan struct{}) {
	if c.resize == nil || sizes == nil {
		return
	}
	encoder := json.NewEncoder(c.resize)
	for {
		select {
		case <-over:
			return
		case size, ok := <-sizes:
			if !ok || encoder.Encode(size) != nil {
				return
			}
		}
	}
}

// drain copies all of a stream. When to fails, it discards the rest, because an unread stream
// blocks the rest of the session.
func drain(to io.Writer, from io.Reader) error {
	if from == nil {
		return nil
	}
	_, err := io.Copy(to, from)
	if err != nil {
		_, _ = io.Copy(io.Discard, from)
	}
	return err
}
