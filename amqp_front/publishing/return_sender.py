"""The returns of a channel: mandatory messages that no queue gets, or one refuses, go back to the client."""

from collections.abc import Sequence

from pamqp import commands

from routelog.amqp_front.publishing.publishing_channel import PublishingChannel
from routelog.amqp_front.wire.command import PublishRun
from routelog.amqp_front.wire.content_frames import content_frames
from routelog.amqp_front.wire.errors import CODE_NAMES, CONTENT_TOO_LARGE, NO_ROUTE, short_text
from routelog.amqp_front.wire.single_run import without_blind_copies


class ReturnSender:
    """Sends messages back to the client of a channel, until that is closed."""

    def __init__(self, channel: PublishingChannel) -> None:
        self._channel = channel
        self._is_closed = False

    def send(
        self,
        run: PublishRun,
        indexes: Sequence[int],
        refusal: str = "",
    ) -> None:
        """Return messages of a run, by index, without their blind copies.

        Args:
            refusal: why they were not stored; empty: no queue gets them.
        """
        if self._is_closed:
            return
        run = without_blind_copies(run)
        keys = run.keys()
        for at in indexes:
            parts = content_frames(
                self._channel.number,
                self._channel.body_frame_max,
                run.properties(at),
                run.body(at),
                commands.Basic.Return,
                reply_code=CONTENT_TOO_LARGE if refusal else NO_ROUTE,
                reply_text=short_text(refusal or CODE_NAMES[NO_ROUTE]),
                exchange=run.exchange,
                routing_key=keys[at],
            )
            self._channel.write(b"".join(parts))

    def close(self) -> None:
        """The channel is gone: return nothing more."""
        self._is_closed = True
