// Package span begins trace spans with an optional callback. The callers choose the spans, and
// the users of their configurations provide the callback.
package span

import (
	"context"
	"log/slog"
)

// Begin begins a span with a callback of a configuration. Without a callback it returns ctx and
// a function without effect.
func Begin(ctx context.Context, with func(context.Context, string, ...slog.Attr) (context.Context, func(error)), name string, attributes ...slog.Attr) (context.Context, func(error)) {
	if with == nil {
		return ctx, func(error) {}
	}
	return with(ctx, name, attributes...)
}
