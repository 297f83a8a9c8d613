"""Names of classes and modules that were dropped, by the package that they leave: there they do not come back.

Old and new are in pairs. Names that are still there are listed in `house_violations.json`; whoever renames one takes it
out of that list, and from then on it is kept out.
"""

DROPPED = {
    "model": """
        Chapter RecordColumns, GossipPassage EgressRelease, Held StreamRanges, Holdings LedgerContents,
        Line RecordHeader, Marker Ping, Echo Pong, Order AdminRequest, Stretch SequenceRun, Task AdminTask
        """,
    "protocols/delivery": """
        Agreement SyncReplication, Answers RepairResponder, Arrived EventsReceived, Assure ConfirmDurable,
        Attach ReportSteering, Attendance ListenControl, Available Availability, Awaited DurabilityAwaited,
        Beginnings StartPositions, Bodies EventBuffer, Border EgressHold, Chain PersistentChain, Charge CreditHold,
        Circle FilteredGroup, Collection Retention, Commits CommitQueue, Company MembershipView,
        Complain ReportTrouble, Destination SubscriberProgress, Dispatch SubscriberFeeds, Done AckedRun,
        Draft BatchBuilder, Drafts PublishQueue, Dropped ReadCancelled, Enquired AvailabilityRequested,
        Enrolment Admission, Entrusted publish, Finished ReadAcknowledged, Forbid Refuse, Gaps GapClosing,
        Give DeliverPage, Heard LetterReceived, Ignore Unsubscribe, Inspection RecordVerification,
        KnownSubscription SubscriptionRecord, Lane OrderedQueue, Leaf StoredPage, Linked LinkUp, Listen Subscribe,
        MakeRoom ResumePublishing, Outstanding UnackedBlocks, Owners OwnerRequests, Patience RetryTimer,
        Peer PeerRepository, Portion ReleasedBatch, Post SendLetter, Publisher BestEffortPublisher,
        Reader SubscriberCursor, Reading StoredReadServer, Receipts AckTracker, Repository TopicRepository,
        Retrieval StoredReadClient, Run ChainRun, Sealed NumberedBatch, Search RepairRequests, Sought PagesRequested,
        Source StreamBuffer, Store EventLog, Stream PublisherStream, Subscriber BestEffortSubscriber,
        Tail RecentRecords, Taken PageConsumed, Tell ReportAvailable, Testimony RepositoryTracer, Trail TraceBuffer,
        Unlinked LinkDown, Wanted MoreRequested, Wish ClientSubscription, _Claim _PendingSync, _Guest _PendingCursor,
        dialogue endpoint_api, survey status
        """,
    "protocols/dissemination": """
        Audience FilteredSubscriptions, Choice MatchedSubscriptions, Demand MemberInterests, Destination Sink,
        Hop NextHop, Interest BrokerSubscription, Journey ParcelHistory, Plan MaskPlan, Roster SubscriptionSlots,
        Share HopShare, Standing MemberProfile, TopicState TopicEntry
        """,
    "protocols/overlay": "Connectivity ConnectivityGraph, Label PathLabel",
    "protocols/connection": "Names NameRegistry",
    "nodes": """
        Census BrokerCounters, Confirm ConfirmSubscription, Correspondence LetterTransport, Demanded MoreRequested,
        Deny DenySubscription, Dialling OutgoingLink, Door Handshake, End ReliableEndpoint, Guest LinkSession,
        Halt Refuse, Herald BrokerTracer, Network BrokerNetwork, Offered publish, Orders AdminRequests,
        Peer NeighbourLink, Settle CompleteFlush, Tell AnswerQuery, Unwished UnsubscribeRequested,
        Wished SubscribeRequested, application client_api, enquiry introspection
        """,
    "wire": "Harvest RowSelection, Intake FrameBuffer, Layout RunLayout, Sheaf BlockView, Stretch UniformRun",
    "storage": """
        Chain SegmentChain, Shelf LedgerStore, group commit_group, register record_index, tables table_ledger
        """,
    "runtime": "Cabinet LedgerStore, Ledgers LedgerThreads, _Desk _LedgerQueue",
    "matching": """
        Cluster FacetGroup, Demand AttributeConstraint, Reach FilterExtent, Sheet BoxColumns, Shelf CoverIndex,
        Steps MaskSteps, Summary ProfileSummary, _Wish _SummarisedFilter, normal normal_form, relations covering,
        spelling filter_text
        """,
    "simulation": """
        Actor SimProcess, Adversary FaultInjector, Appetite ReadPace, Atlas NetworkOracle, Author SimPublisher,
        Book DeliveryHistory, Cast Participants, Depot SimRepository, Ledger DeliveryOracle, Life ClientHistory,
        Mesh OverlayWorld, Mischief FaultScript, Page SubscriberHistory, PostOffice LetterNetwork,
        Reader SimSubscriber, Scholar SimStoredReader, Scribe SimResumingPublisher, Shelf DiskContents, Site SimBroker,
        Sky PipeFaults, Spot BrokerView, Stage DeliveryWorld, Turn ApplicationRun, Verdict FinalChecks,
        Weather LetterFaults, Wire SimLink, Witness RecordingRelay, hearing trace_checker
        """,
    "pipeline": """
        Catalogue BlockingStoredReader, Portion SourcePartition, claim trace_claims, holding cached_tables,
        hole trace_gaps, stretch number_ranges
        """,
    "policies": "elasticity autoscaler",
    "cli": "steward autoscaler",
}


def pairs(package: str) -> dict[str, str]:
    """Return the new names by the dropped ones."""
    return dict(pair.split() for pair in DROPPED[package].split(","))
